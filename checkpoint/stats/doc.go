// Package stats is the arithmetic of the A/B gate: pure functions of numbers, each with the source of its
// formula. Tails are those of the normal law unless a function says otherwise; a level alpha is always a
// probability in (0, 1), already split over the tests that share it.
package stats
