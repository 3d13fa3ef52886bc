// Package evals holds a candidate against offline suites before it meets live traffic: which suites there are, what they
// reported, and whether that is good enough.
package evals
