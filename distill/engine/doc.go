// Package engine is the pure state machine of one partition: Apply(Record) Effects. It reads no clock, no random
// number and no network; the live worker, score and every replay share it. What it makes is a function of the
// partition's records and their times alone.
package engine
