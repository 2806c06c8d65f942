import UIKit

protocol Shape {
    var area: Double { get }
    func describe() -> String
}

final class Circle: Shape {
    let radius: Double

    init(radius: Double) {
        self.radius = radius
    }

    var area: Double { return .pi * radius * radius }

    func describe() -> String {
        return String(format: "a circle of %.2f", area)
    }
}

class ShapeViewController: UIViewController {
    @IBOutlet weak var label: UILabel!
    private var shapes: [Shape] = [Circle(radius: 2), Circle(radius: 0.5)]

    override func viewDidLoad() {
        super.viewDidLoad()
        let largest = shapes.max { $0.area < $1.area }
        label.text = largest?.describe() ?? "nothing"
    }
}
