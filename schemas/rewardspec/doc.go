// Package rewardspec holds the documents that say what a turn is worth: the reward spec and the frozen baseline.
package rewardspec
