// Package house holds the tests of the house's own rules: which folder may import which, what is pure, that the
// documents' links lead somewhere, and that nothing of one machine is committed.
package house
