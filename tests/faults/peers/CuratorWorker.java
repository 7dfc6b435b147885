import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A worker of fault runs (see ../worker.cpp and ../history.py) that locks with Curator's InterProcessMutex, as its
 * documentation says to: a listener of connection states, and a hold counts as lost from SUSPENDED on, which is the
 * strictest reading of it. There is no fence, so a grant is numbered by the time at which it was given.
 *
 * CuratorWorker URL NAME SEED STORE HISTORY LOCK...
 */
public class CuratorWorker {
  static String name;
  static String store;
  static FileOutputStream history;
  static Random random;
  static volatile boolean enough;
  /** Counts the times at which the connection was no longer certain. */
  static volatile int doubts;
  static volatile boolean connected;

  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 6) {
      System.err.println("usage: CuratorWorker URL NAME SEED STORE HISTORY LOCK...");
      System.exit(64);
    }
    String hosts = arguments[0].replaceAll("^zk://|/.*$", "");
    int ttl = Integer.parseInt(arguments[0].replaceAll("^.*ttl=|s$", "")) * 1000;
    name = arguments[1];
    random = new Random(Long.parseLong(arguments[2]));
    store = arguments[3];
    history = new FileOutputStream(arguments[4], true);
    List<String> locks = List.of(arguments).subList(5, arguments.length);
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(hosts, ttl, ttl, new ExponentialBackoffRetry(100, 10, 1000));
    client.getConnectionStateListenable().addListener((at, state) -> {
      connected = state == ConnectionState.CONNECTED || state == ConnectionState.RECONNECTED;
      if (!connected) doubts++;
    });
    client.start();
    Thread turns = new Thread(() -> {
      while (!enough) {
        try {
          turn(client, locks.get(random.nextInt(locks.size())));
          Thread.sleep(random.nextInt(20));
        } catch (InterruptedException | IOException e) {
          return;
        }
      }
    });
    turns.start();
    while (System.in.read() >= 0) continue;
    enough = true;
    turns.interrupt();
    turns.join(10000);
    client.close();
  }

  static void turn(CuratorFramework client, String lock) throws IOException, InterruptedException {
    add("wants", lock, "");
    boolean patient = random.nextInt(4) != 0;
    InterProcessMutex mutex = new InterProcessMutex(client, "/faults/" + lock);
    try {
      if (!mutex.acquire(patient ? 120000 : random.nextInt(1000), TimeUnit.MILLISECONDS)) {
        add("failed", lock, ",\"error\":\"timed out\"");
        return;
      }
    } catch (InterruptedException e) {
      throw e;
    } catch (Exception e) {
      add("failed", lock, ",\"error\":\"" + e.getClass().getName() + "\"");
      return;
    }
    // What was heard of while it waited does not count: it was granted on a connection that answered.
    int before = doubts;
    long grant = now();
    String fence = ",\"fence\":" + grant;
    add("granted", lock, fence);
    long end = now() + random.nextInt(200) * 1000000L;
    for (boolean written = false; ; written = true) {
      long look = now();
      String at = fence + ",\"before\":" + look + ",\"until\":" + look;
      if (doubts != before || !connected) {
        add("invalid", lock, at);
        add("lost", lock, fence);
        break;
      }
      add("valid", lock, at);
      if (written && now() >= end) break;
      Thread.sleep(1 + random.nextInt(20));
      write(lock, grant);
    }
    long begun = now();
    String outcome = "ok";
    try {
      mutex.release();
    } catch (Exception e) {
      outcome = e.getClass().getName();
    }
    add("released", lock, fence + ",\"begun\":" + begun + ",\"outcome\":\"" + outcome + "\"");
  }

  /** To a store that takes whatever comes, and keeps a journal of it. */
  static void write(String lock, long grant) throws IOException {
    try (FileOutputStream journal = new FileOutputStream(store + "/" + lock + ".journal", true)) {
      journal.write((grant + " accepted\n").getBytes(StandardCharsets.UTF_8));
    }
    add("wrote", lock, ",\"fence\":" + grant + ",\"accepted\":true");
  }

  static synchronized void add(String what, String lock, String more) throws IOException {
    String line = String.format("{\"at\":%d,\"worker\":\"%s\",\"what\":\"%s\",\"lock\":\"%s\"%s}\n", now(), name, what, lock, more);
    history.write(line.getBytes(StandardCharsets.UTF_8));
  }

  /** CLOCK_BOOTTIME is what nanoTime() shows too, as long as the machine is not suspended. */
  static long now() {
    return System.nanoTime();
  }
}
