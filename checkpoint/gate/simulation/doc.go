// Package simulation plays whole A/B tests through the gate, to say how often a policy ships what at a given traffic.
//
//	traffic ─▶ units with skewed numbers of turns, in sessions, by the hour of the day
//	        ─▶ turns that settle late and hang together inside a unit
//	        ─▶ bucket sums ─▶ every minute a look ─▶ gate.Evaluate, whose verdict is the experiment's
package simulation
