// Package eventjson reads events that are written as JSON, each by itself: a bad one has its own answer, with the path
// of the field that is wrong, and its neighbours pass.
package eventjson
