import Foundation

/// A first-in, first-out queue of any element.
struct Queue<Element> {
    private var items: [Element] = []

    var isEmpty: Bool { items.isEmpty }
    var count: Int { items.count }

    mutating func enqueue(_ item: Element) {
        items.append(item)
    }

    mutating func dequeue() -> Element? {
        guard !items.isEmpty else { return nil }
        return items.removeFirst()
    }
}

var queue = Queue<String>()
queue.enqueue("first")
queue.enqueue("second")
while let next = queue.dequeue() {
    print("served \(next), \(queue.count) left")
}
