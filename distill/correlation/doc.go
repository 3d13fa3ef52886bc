// Package correlation says how far two series of numbers go together.
package correlation
