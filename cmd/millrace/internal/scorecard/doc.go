// Package scorecard scores transcripts in memory through the engine that the pipeline runs on, and makes a report of it.
package scorecard
