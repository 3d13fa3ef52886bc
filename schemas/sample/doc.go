// Package sample is one training sequence, as it stands in a shard.
package sample
