// Command millrace is the real-time RL feedback pipeline of a coding agent: one binary whose roles are named after
// its rooms. Wiring only: what it does stands in ingest, distill, feed and checkpoint.
package main
