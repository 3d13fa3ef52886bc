// Package sim makes the traffic of thousands of synthetic users on a simulated clock: whole event streams of
// sessions under two policies, deterministic from a seed.
//
// Nothing here knows the pipeline. A caller pulls events with Next, in the order in which they are sent:
//
//	units ─▶ sessions (who serves this one? Assign) ─▶ turns ─▶ events as they occur ─▶ transport ─▶ Next
//	         unit.go           session.go               turn.go     sequence numbers      delays,
//	                                                                                      repeats, losses
//
// What differs between policies is one Behaviour, chosen by the policy version that Assign names. Everything else
// (requests, clocks, networks, outages) is the same for all arms.
//
// The power of the shipped gate under the default traffic, by the sums of 40 cycles: with a test of 205 minutes that
// begins 75 minutes in, the statistic of kept edits lies 5.7 standard errors above 0 (2.05 are needed), that of the
// edit rate 5.1 and that of latency 4.8 above their margins of 2 % (1.64 are needed): a better candidate ships 99.8 %
// of the time. Of 80 null ones none had its win and both guardrails at once. About 2,000 units meet such a test.
package sim
