package bank;

import java.util.ArrayList;
import java.util.List;

/** An account that remembers what was paid in and out. */
public class Account {
    private final String owner;
    private final List<Long> entries = new ArrayList<>();

    public Account(String owner) {
        this.owner = owner;
    }

    public void pay(long cents) {
        if (balance() + cents < 0) {
            throw new IllegalArgumentException(owner + " has not enough money");
        }
        entries.add(cents);
    }

    public long balance() {
        return entries.stream().mapToLong(Long::longValue).sum();
    }
}
