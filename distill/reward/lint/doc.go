// Package lint finds in a reward spec what a policy could use against it, before anybody adopts it: by reading its
// expressions, and by trying them on turns at the borders and between, the same ones for the same seed.
package lint
