// Package adoption puts a reward in force: a spec, the baseline that comes with it, and the judge whose verdicts count,
// in one configuration that the workers read from the log.
package adoption
