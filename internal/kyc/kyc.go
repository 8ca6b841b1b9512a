// Package kyc knows people and companies by their documents: which ones a country asks for, the images and tax ids
// that were handed in, and the cases in which a provider verifies them.
package kyc
