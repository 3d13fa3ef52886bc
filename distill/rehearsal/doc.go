// Package rehearsal acts out sessions event by event, as an IDE backend would emit them, and puts them through the
// real engine: what a behaviour earns is seen on the whole way, not only in the reward's arithmetic.
package rehearsal
