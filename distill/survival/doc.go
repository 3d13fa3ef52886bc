// Package survival compares the reward that turns got twenty minutes after their end with what is left of their edits a
// week later: does the reward mean what it says?
package survival
