// Package gate decides about a candidate from the sums of its A/B test: Evaluate(Policy, Evidence) Verdict.
//
// It is a pure function. It reads no clock: time is the log's, as far as every partition has committed it. The
// same evidence under the same policy gives the same verdict to the bit, so a verdict can be made again from
// what was frozen with it.
//
//	evidence ─▶ measure   each metric's lift, benefit-signed, on the scale of its test
//	         ─▶ test      win, early win, guardrail, harm: a bound against a threshold each
//	         ─▶ quality   is the comparison one at all?
//	         ─▶ decide    INVALID, ROLLBACK, SHIP, HOLD, or RUNNING
//	         ─▶ explain   sentences, and what would change the verdict
package gate
