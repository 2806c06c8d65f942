package main

import (
	"fmt"
	"log"
	"net/http"
	"sync"
)

type counter struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[r.URL.Path]++
	fmt.Fprintf(w, "%s was visited %d times\n", r.URL.Path, c.count[r.URL.Path])
}

func main() {
	handler := &counter{count: make(map[string]int)}
	if err := http.ListenAndServe(":8080", handler); err != nil {
		log.Fatal(err)
	}
}
