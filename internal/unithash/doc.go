// Package unithash turns a unit (a user or an organisation) into its pseudonym, its place in an experiment and
// its bucket in the sums. Every number it gives is frozen: an assignment that moved between two releases
// would put a unit into both arms.
package unithash
