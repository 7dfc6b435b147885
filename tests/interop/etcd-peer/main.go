// Stands in a line of etcd with Go's concurrency.Mutex, or with the server's own Lock RPC:
//
//	etcd-peer mutex|rpc ENDPOINTS PREFIX ROUNDS DIARY NAME
//
// In each round it takes the lock, appends "+NAME CREATE-REVISION HEADER-REVISION" and "-NAME" to the diary, and lets
// go. The first number is that of its key, the second one what the lock call itself says.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.etcd.io/etcd/etcdserver/api/v3lock/v3lockpb"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func write(path, line string) {
	diary, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	check(err)
	_, err = diary.WriteString(line + "\n")
	check(err)
	check(diary.Close())
}

func main() {
	if len(os.Args) != 7 {
		log.Fatal("usage: etcd-peer mutex|rpc ENDPOINTS PREFIX ROUNDS DIARY NAME")
	}
	how, prefix, path, name := os.Args[1], os.Args[3], os.Args[5], os.Args[6]
	rounds, err := strconv.Atoi(os.Args[4])
	check(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[2], ",")})
	check(err)
	defer client.Close()
	session, err := concurrency.NewSession(client)
	check(err)
	defer session.Close()
	ctx := context.Background()
	mutex := concurrency.NewMutex(session, prefix)
	rpc := v3lockpb.NewLockClient(client.ActiveConnection())

	for i := 0; i < rounds; i++ {
		var key string
		var revision int64
		if how == "mutex" {
			check(mutex.Lock(ctx))
			key, revision = mutex.Key(), mutex.Header().Revision
		} else {
			answer, err := rpc.Lock(ctx, &v3lockpb.LockRequest{Name: []byte(prefix), Lease: int64(session.Lease())})
			check(err)
			key, revision = string(answer.Key), answer.Header.Revision
		}
		own, err := client.Get(ctx, key)
		check(err)
		write(path, fmt.Sprintf("+%s %d %d", name, own.Kvs[0].CreateRevision, revision))
		write(path, "-"+name)
		if how == "mutex" {
			check(mutex.Unlock(ctx))
		} else {
			_, err := rpc.Unlock(ctx, &v3lockpb.UnlockRequest{Key: []byte(key)})
			check(err)
		}
	}
}
