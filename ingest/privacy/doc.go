// Package privacy takes out of an event what may not be stored: content that the event's level forbids, and secrets.
package privacy
