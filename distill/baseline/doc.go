// Package baseline makes the baseline that comes with a reward spec: the numbers of an interval's turns, by stratum, as
// a replay of that interval under the spec gives them.
package baseline
