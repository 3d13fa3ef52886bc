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
package sim
