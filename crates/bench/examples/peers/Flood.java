import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;

/**
 * A member of a JGroups cluster that sends and receives; the counterpart of bench/library.rs.
 *
 * <p>Flood CONFIG HOST HOSTS SIZE INTERVAL_NS: joins, prints "ready" once all hosts are in the view, reads "FROM UNTIL"
 * (nanoseconds of the monotonic clock), sends until UNTIL (as fast as JGroups takes messages, if INTERVAL_NS is 0) and
 * prints what it received as one JSON object, in the form of bench/tally.rs.
 */
public final class Flood implements Receiver {
    private static final int STAMP = 20;
    private static final int BLOCK = 256;
    private static final int DIGITS = 10;

    private long from = Long.MAX_VALUE;
    private long until = Long.MAX_VALUE;
    private long bytes;
    private long messages;
    private long holes;
    private long hash;
    private long count;
    private final long[] next;
    private final List<Long> notes = new ArrayList<>();
    private final long[] latencies = new long[64 << DIGITS];

    private Flood(int hosts) {
        next = new long[hosts + 1];
    }

    public static void main(String[] args) throws Exception {
        String config = args[0];
        int host = Integer.parseInt(args[1]);
        int hosts = Integer.parseInt(args[2]);
        int size = Integer.parseInt(args[3]);
        long interval = Long.parseLong(args[4]);
        Flood flood = new Flood(hosts);
        JChannel channel = new JChannel(config);
        channel.setReceiver(flood);
        channel.connect("flood");
        while (channel.getView().size() < hosts) {
            Thread.sleep(20);
        }
        System.out.println("ready");
        String[] window = new BufferedReader(new InputStreamReader(System.in)).readLine().split(" ");
        long ends = Long.parseLong(window[1]);
        flood.count(Long.parseLong(window[0]), ends);

        long due = System.nanoTime() + interval * host / hosts;
        for (long index = 0; ; index++, due += interval) {
            long now = System.nanoTime();
            while (interval > 0 && now < Math.min(due, ends)) {
                LockSupport.parkNanos(Math.min(due, ends) - now);
                now = System.nanoTime();
            }
            if (now >= ends) {
                break;
            }
            // JGroups keeps the array until everybody has it.
            byte[] payload = new byte[size];
            ByteBuffer.wrap(payload).putInt(host).putLong(index).putLong(interval > 0 ? due : now);
            channel.send(new BytesMessage(null, payload));
        }
        System.out.println(flood.tally());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    @Override
    public synchronized void receive(Message message) {
        long now = System.nanoTime();
        if (message.getLength() < STAMP) {
            return;
        }
        ByteBuffer payload = ByteBuffer.wrap(message.getArray(), message.getOffset(), message.getLength());
        int sender = payload.getInt();
        long index = payload.getLong();
        long sent = payload.getLong();
        note(sender, index);
        if (index != next[sender]) {
            holes++;
        }
        next[sender] = index + 1;
        if (now >= from && now < until) {
            bytes += message.getLength();
            messages++;
            latencies[bucket(Math.max(1, now - sent))]++;
        }
    }

    private synchronized void count(long opens, long ends) {
        from = opens;
        until = ends;
    }

    private void note(long sender, long index) {
        long[] values = {hash, sender, index};
        hash = 0xcbf29ce484222325L;
        for (long value : values) {
            for (int octet = 0; octet < 8; octet++) {
                hash ^= (value >>> (8 * octet)) & 0xff;
                hash *= 0x100000001b3L;
            }
        }
        count++;
        if (count % BLOCK == 0) {
            notes.add(hash);
        }
    }

    /** A bucket holds values that agree in their first DIGITS bits. */
    private static int bucket(long value) {
        int shift = 0;
        while (value >> (DIGITS + 1 + shift) != 0) {
            shift++;
        }
        return (shift << DIGITS) + (int) (value >> shift);
    }

    private static long valueOf(int index) {
        int shift = index >> DIGITS;
        return shift == 0 ? index : (long) (index - ((shift - 1) << DIGITS)) << (shift - 1);
    }

    private synchronized String tally() {
        StringBuilder text = new StringBuilder();
        text.append("{\"bytes\":").append(bytes).append(",\"messages\":").append(messages);
        text.append(",\"holes\":").append(holes).append(",\"reformations\":0,\"next\":{},\"order\":{\"hash\":");
        text.append(Long.toUnsignedString(hash)).append(",\"count\":").append(count).append(",\"notes\":[");
        String comma = "";
        for (long note : notes) {
            text.append(comma).append(Long.toUnsignedString(note));
            comma = ",";
        }
        text.append("]},\"latencies\":[");
        comma = "";
        for (int index = 0; index < latencies.length; index++) {
            if (latencies[index] > 0) {
                text.append(comma).append('[').append(valueOf(index)).append(',').append(latencies[index]).append(']');
                comma = ",";
            }
        }
        return text.append("]}").toString();
    }
}
