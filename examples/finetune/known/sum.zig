const std = @import("std");

/// The sum of all numbers in a slice, or an error if it does not fit.
fn sum(numbers: []const u32) !u32 {
    var total: u32 = 0;
    for (numbers) |number| {
        total = try std.math.add(u32, total, number);
    }
    return total;
}

pub fn main() !void {
    const stdout = std.io.getStdOut().writer();
    const numbers = [_]u32{ 3, 1, 4, 1, 5 };
    try stdout.print("the sum is {d}\n", .{try sum(&numbers)});
}

test "sum of nothing" {
    try std.testing.expectEqual(@as(u32, 0), try sum(&.{}));
}
