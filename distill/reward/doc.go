// Package reward turns the signals of a settled turn into its reward and its advantage. It is pure.
package reward
