//go:build race

package main

// raceDetector tells whether the tests run with it: several times as slow.
const raceDetector = true
