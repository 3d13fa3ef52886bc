// Package judge asks a model what a user's next request shows of the turn before it, where the structural rules say
// nothing, and writes the answers into the log as evidence: the engine itself asks nobody.
//
//	log ─▶ tracker ─▶ queue ─▶ Judge ─▶ EvidenceAdded ─▶ log ─▶ engine
//	         ▲                   │
//	         └── its own evidence tells what was asked already: it keeps no position of its own
//
// Only texts of FULL privacy are kept, in memory, for as long as their turn is open. Nothing waits for the judge: if the
// endpoint is away, turns settle by the structural rules.
package judge
