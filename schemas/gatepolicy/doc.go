// Package gatepolicy is the document that says by which rules a candidate is tested on live traffic: what it
// must win, what it must not lose, how sure the gate has to be, and for how long it looks.
package gatepolicy
