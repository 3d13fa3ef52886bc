// Package account counts what a partition read and what became of it, and proves that nothing is missing.
package account
