// Package reference holds the gate's arithmetic against published numbers: cases with inputs, expected values
// and a tolerance each, as a file that anybody can run and extend.
package reference
