// A worker of fault runs (see ../worker.cpp and ../history.py) that locks with Go's concurrency.Mutex, as its
// documentation says to: a session with a lease, a mutex on it, and a look at session.Done() before each write, which
// tells that the lease is gone. There is no fence, so a grant is numbered by the time at which it was given.
//
//	go-worker URL NAME SEED STORE HISTORY LOCK...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const bootTime = 7

func now() int64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, bootTime, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type worker struct {
	name, store string
	history     *os.File
}

type fields map[string]interface{}

func (w *worker) add(what, lock string, more fields) {
	line := fields{"at": now(), "worker": w.name, "what": what, "lock": lock}
	for key, value := range more {
		line[key] = value
	}
	text, err := json.Marshal(line)
	check(err)
	_, err = w.history.Write(append(text, '\n'))
	check(err)
}

// write is a write to a store that takes whatever comes, and keeps a journal of it.
func (w *worker) write(lock string, grant int64) {
	journal, err := os.OpenFile(w.store+"/"+lock+".journal", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0600)
	check(err)
	_, err = journal.WriteString(fmt.Sprintf("%d accepted\n", grant))
	check(err)
	check(journal.Close())
	w.add("wrote", lock, fields{"fence": grant, "accepted": true})
}

// work goes on for a while, or until the session says that it is over.
func (w *worker) work(session *concurrency.Session, lock string, grant int64) {
	end := time.Now().Add(time.Duration(rand.Intn(200)) * time.Millisecond)
	for written := false; ; written = true {
		before := now()
		select {
		case <-session.Done():
			w.add("invalid", lock, fields{"fence": grant, "before": before, "until": before})
			w.add("lost", lock, fields{"fence": grant})
			return
		default:
			w.add("valid", lock, fields{"fence": grant, "before": before, "until": before})
		}
		if written && time.Now().After(end) {
			return
		}
		time.Sleep(time.Duration(1+rand.Intn(20)) * time.Millisecond)
		w.write(lock, grant)
	}
}

func (w *worker) turn(ctx context.Context, session *concurrency.Session, lock string) {
	patience := 120 * time.Second
	if rand.Intn(4) == 0 {
		patience = time.Duration(rand.Intn(1000)) * time.Millisecond
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w.add("wants", lock, nil)
	mutex := concurrency.NewMutex(session, "/faults/"+lock)
	if err := mutex.Lock(waiting); err != nil {
		w.add("failed", lock, fields{"error": err.Error()})
		return
	}
	grant := now()
	w.add("granted", lock, fields{"fence": grant})
	w.work(session, lock, grant)
	begun := now()
	leaving, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	outcome := "ok"
	if err := mutex.Unlock(leaving); err != nil {
		outcome = err.Error()
	}
	w.add("released", lock, fields{"fence": grant, "begun": begun, "outcome": outcome})
}

func main() {
	if len(os.Args) < 7 {
		log.Fatal("usage: go-worker URL NAME SEED STORE HISTORY LOCK...")
	}
	where, err := url.Parse("etcd:///?" + strings.SplitN(os.Args[1], "?", 2)[1])
	check(err)
	ttl, err := time.ParseDuration(where.Query().Get("ttl"))
	check(err)
	hosts := strings.Split(strings.TrimPrefix(os.Args[1], "etcd://"), "/")[0]
	seed, err := strconv.ParseInt(os.Args[3], 10, 64)
	check(err)
	rand.Seed(seed)
	history, err := os.OpenFile(os.Args[5], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0600)
	check(err)
	w := &worker{name: os.Args[2], store: os.Args[4], history: history}
	locks := os.Args[6:]

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(hosts, ","), DialTimeout: time.Minute})
	check(err)
	for ctx.Err() == nil {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl.Seconds())), concurrency.WithContext(ctx))
		if err != nil {
			w.add("unconnected", "", fields{"error": err.Error()})
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for open := true; open && ctx.Err() == nil; {
			w.turn(ctx, session, locks[rand.Intn(len(locks))])
			time.Sleep(time.Duration(rand.Intn(20)) * time.Millisecond)
			select {
			case <-session.Done():
				open = false
			default:
			}
		}
		_ = session.Close()
	}
}
