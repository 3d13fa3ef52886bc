// Package postgres opens the database, brings its schema up to date, and elects fenced leaders in it.
package postgres
