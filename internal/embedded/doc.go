// Package embedded runs what `millrace up` and the tests need beside the pipeline: a broker that speaks Kafka's
// protocol, in this process, and a real Postgres as a child process.
//
// A state folder belongs to one process at a time (a lock on the file "lock", which a kill releases). Both keep their
// data: after a kill -9 the next start finds everything that was acknowledged.
//
//	<dir>/lock           held while in use; holds the pid of the holder
//	<dir>/data           Postgres: its data folder, made whole or not at all
//	<dir>/postgres.log   Postgres: what it says
package embedded
