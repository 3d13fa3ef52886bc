// Command bench measures the hot path against a peer in the same run; docs/performance.md says how to read it.
package main
