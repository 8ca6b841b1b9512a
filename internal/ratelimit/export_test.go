package ratelimit

// Keys returns the number of keys that the limiter keeps.
func (l *Limiter) Keys() int { return len(l.buckets) }
