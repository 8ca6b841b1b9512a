package iso20022

// Conforms exports conforms to external tests.
var Conforms = conforms
