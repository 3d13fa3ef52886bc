// Package event is what an IDE backend emits, and the control records that steer every worker through the log.
package event
