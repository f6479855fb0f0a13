// Loops with a computed number of iterations: a loop that swaps its values, one
// in a branch that is not taken (it would never end), one without iterations, a
// nested loop, and one whose initial value is split in another way than its
// results.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func @main(
    %x: tensor<5x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
    %y: tensor<5x6xf32> {heddle.name = "y", heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}]>})
    -> (tensor<5x6xf32> {heddle.name = "first", heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {}]>},
        tensor<5x6xf32> {heddle.name = "second"},
        tensor<5x6xf32> {heddle.name = "never"},
        tensor<5x6xf32> {heddle.name = "none"},
        tensor<6xf32> {heddle.name = "nested"},
        tensor<i64> {heddle.name = "halvings"}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %l0 = arith.constant 0 : i64
  %l1 = arith.constant 1 : i64
  %half = arith.constant 0.5 : f32
  %zero = arith.constant 0.0 : f32
  %limit = arith.constant 1.0 : f32
  %halves = arith.constant dense<0.5> : tensor<5x6xf32>
  %e0 = tensor.empty() : tensor<f32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %e6 = tensor.empty() : tensor<6xf32>
  %z6 = linalg.fill ins(%zero : f32) outs(%e6 : tensor<6xf32>) -> tensor<6xf32>

  // Swaps its values an odd number of times.
  %swapped:3 = scf.while (%a = %x, %b = %y, %i = %c0) : (tensor<5x6xf32>, tensor<5x6xf32>, i32) -> (tensor<5x6xf32>, tensor<5x6xf32>, i32) {
    %more = arith.cmpi slt, %i, %c3 : i32
    scf.condition(%more) %b, %a, %i : tensor<5x6xf32>, tensor<5x6xf32>, i32
  } do {
  ^bb0(%a: tensor<5x6xf32>, %b: tensor<5x6xf32>, %i: i32):
    %next = arith.addi %i, %c1 : i32
    %less = arith.mulf %a, %halves : tensor<5x6xf32>
    scf.yield %less, %b, %next : tensor<5x6xf32>, tensor<5x6xf32>, i32
  }

  // The sum of squares is not above 100, so the branch below is not taken.
  %squares = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<5x6xf32>) outs(%z0 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.mulf %a, %a : f32
    %1 = arith.addf %0, %o : f32
    linalg.yield %1 : f32
  } -> tensor<f32>
  %square = tensor.extract %squares[] : tensor<f32>
  %hundred = arith.constant 100.0 : f32
  %isLarge = arith.cmpf ogt, %square, %hundred : f32
  %never = scf.if %isLarge -> tensor<5x6xf32> {
    %r = scf.while (%a = %x) : (tensor<5x6xf32>) -> tensor<5x6xf32> {
      %isSame = arith.cmpf oeq, %square, %square : f32
      scf.condition(%isSame) %a : tensor<5x6xf32>
    } do {
    ^bb0(%a: tensor<5x6xf32>):
      %0 = arith.addf %a, %y : tensor<5x6xf32>
      scf.yield %0 : tensor<5x6xf32>
    }
    scf.yield %r : tensor<5x6xf32>
  } else {
    %r = scf.while (%a = %y) : (tensor<5x6xf32>) -> tensor<5x6xf32> {
      %all = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%a : tensor<5x6xf32>) outs(%z0 : tensor<f32>) {
      ^bb0(%v: f32, %o: f32):
        %0 = math.absf %v : f32
        %1 = arith.addf %0, %o : f32
        linalg.yield %1 : f32
      } -> tensor<f32>
      %sum = tensor.extract %all[] : tensor<f32>
      %more = arith.cmpf ogt, %sum, %limit : f32
      scf.condition(%more) %a : tensor<5x6xf32>
    } do {
    ^bb0(%a: tensor<5x6xf32>):
      %0 = arith.mulf %a, %halves : tensor<5x6xf32>
      scf.yield %0 : tensor<5x6xf32>
    }
    scf.yield %r : tensor<5x6xf32>
  }

  %none = scf.while (%a = %y) : (tensor<5x6xf32>) -> tensor<5x6xf32> {
    %b = arith.addf %a, %x : tensor<5x6xf32>
    scf.condition(%isLarge) %b : tensor<5x6xf32>
  } do {
  ^bb0(%a: tensor<5x6xf32>):
    scf.yield %y : tensor<5x6xf32>
  }

  // The outer loop multiplies; the inner one counts how often a number is halved
  // until it is small.
  %nested:2 = scf.while (%v = %z6, %i = %c0, %n = %l0) : (tensor<6xf32>, i32, i64) -> (tensor<6xf32>, i64) {
    %more = arith.cmpi slt, %i, %c3 : i32
    %next = arith.addi %i, %c1 : i32
    scf.condition(%more) %v, %n : tensor<6xf32>, i64
  } do {
  ^bb0(%v: tensor<6xf32>, %n: i64):
    %halved:2 = scf.while (%s = %square, %m = %n) : (f32, i64) -> (i64, f32) {
      %more = arith.cmpf ogt, %s, %half : f32
      scf.condition(%more) %m, %s : i64, f32
    } do {
    ^bb0(%m: i64, %s: f32):
      %0 = arith.mulf %s, %half : f32
      %1 = arith.addi %m, %l1 : i64
      scf.yield %0, %1 : f32, i64
    }
    %s5 = tensor.splat %halved#1 : tensor<5xf32>
    %w = linalg.vecmat ins(%s5, %y : tensor<5xf32>, tensor<5x6xf32>) outs(%v : tensor<6xf32>) -> tensor<6xf32>
    %total = arith.index_cast %halved#0 : i64 to index
    %i = arith.index_cast %total : index to i32
    scf.yield %w, %i, %halved#0 : tensor<6xf32>, i32, i64
  }
  %halvings = tensor.from_elements %nested#1 : tensor<i64>
  return %swapped#0, %swapped#1, %never, %none, %nested#0, %halvings : tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>, tensor<6xf32>, tensor<i64>
}
