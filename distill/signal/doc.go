// Package signal computes the observed facts of a turn: one number each, null where nothing was observed. It
// reads a turn's facts and nothing else, and knows no reward.
package signal
