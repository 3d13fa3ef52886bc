// Package experiment is the A/B test of a candidate on live traffic: declared before it starts and never changed,
// announced to the workers through the log, and read back as the evidence of a verdict.
package experiment
