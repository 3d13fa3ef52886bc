// Package release is the live pointer: which checkpoint serves everybody, how it came to that, and how the world is
// told. The pointer moves in one transaction with its history and the candidate's state; publication follows, and is
// repeated until it is recorded.
package release
