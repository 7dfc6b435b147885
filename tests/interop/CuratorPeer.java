import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes a lock again and again with Curator's own recipe: CuratorPeer HOSTS PATH MARK THREADS ROUNDS.
 *
 * Whoever holds the lock makes the file MARK, which must not be there yet, and removes it. Each round is told in a line:
 * the czxid of the lock's node, and from when to when it was held, in nanoseconds of CLOCK_MONOTONIC.
 */
public class CuratorPeer {
  /** Knows its own node. */
  static class Mutex extends InterProcessMutex {
    Mutex(CuratorFramework client, String path) {
      super(client, path);
    }

    String node() {
      return getLockPath();
    }
  }

  public static void main(String[] arguments) throws Exception {
    try (CuratorFramework client =
        CuratorFrameworkFactory.newClient(arguments[0], 15000, 15000, new ExponentialBackoffRetry(100, 10))) {
      client.start();
      Thread[] threads = new Thread[Integer.parseInt(arguments[3])];
      for (int i = 0; i < threads.length; i++) {
        threads[i] = new Thread(() -> contend(client, arguments[1], Path.of(arguments[2]), arguments[4]));
        threads[i].start();
      }
      for (Thread thread : threads) thread.join();
    }
  }

  static void contend(CuratorFramework client, String path, Path mark, String rounds) {
    try {
      for (int i = 0; i < Integer.parseInt(rounds); i++) {
        Mutex mutex = new Mutex(client, path);
        mutex.acquire();
        long from = System.nanoTime();
        Files.createFile(mark);
        long czxid = client.checkExists().forPath(mutex.node()).getCzxid();
        Files.delete(mark);
        long to = System.nanoTime();
        mutex.release();
        System.out.println(czxid + " " + from + " " + to);
      }
    } catch (Exception e) {
      System.out.println("failed: " + e);
      System.exit(1);
    }
  }
}
