package iso20022

// Conforms checks a message by a schema, for the tests of who writes messages.
var Conforms = conforms
