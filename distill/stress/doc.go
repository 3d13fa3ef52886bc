// Package stress lets a policy climb a reward, and says where it ends: a small world of coding tasks, everything that a
// policy can do in it, each turn scored by the real engine.
package stress
