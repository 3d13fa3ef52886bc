// Package turn holds an open turn as the log gave it, folds its events into facts, and cuts its tokens into
// training sequences. It decides nothing about reward.
package turn
