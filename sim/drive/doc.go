// Package drive sends simulated traffic to a gateway as backends do: by HTTP, in batches, sending again what was not
// taken, and asking once a session who serves it. It moves the simulated clock in steps, and after each step waits for
// whoever has to keep up.
package drive
