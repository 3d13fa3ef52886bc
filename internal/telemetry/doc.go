// Package telemetry makes the logger and the metrics registry that a process hands to its parts.
package telemetry
