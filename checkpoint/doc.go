// Package checkpoint leads a checkpoint through its life: every five hours a cut, out of it a candidate, its test on
// live traffic, the verdict, the live pointer, and the world told of it.
//
// One fenced leader does it, in passes of Control.Step. A pass looks where things stand in Postgres and moves each of
// them on by one step at a time, until nothing moves any more. Every step is a transaction that checks the leader's
// term, and everything outside it (control records, objects) is written before and may be written twice: whatever
// moment a process dies at, the next pass goes on from there.
//
//	schedule ─▶ cut ─▶ candidate ─▶ experiment ─▶ gate ─▶ release
package checkpoint
